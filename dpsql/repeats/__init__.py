"""Which stored releases answer a question, so that it is free: by proofs that their vectors are what is asked for.

A stored answer that is given again is a function of what was released and paid for: it costs nothing, whatever it is
(post-processing; Dwork, Roth, proposition 2.1). So no privacy hangs on what is written here. What does is whether the
answer is right: that a group's exact vector in the stored release is the one that a new release would add noise to.
Let S be the conjuncts of WHERE in the stored release and W those of the question, over the same relation.

- *The same groups*: W = S, the same keys in any order. Any of the slots will do (a subset of the columns).
- *Fewer groups*: S is part of W, and what W has beside it reads keys alone. A group for which that is true holds the
  same rows as before, and each adds the same, where what a unit adds to a group hangs on its rows in that group alone
  (`Identity.local`; not where rows or groups are chosen among all that WHERE leaves).
- *Coarser groups*: as above, over fewer keys. The stored groups must be all that a row for which W is true can be in:
  each key that is left out has been listed in full, by what the snapshot or the SQL makes of every row (bounds, types),
  or by a conjunct of W (`hotel IN ('A', 'B')`). What a policy says of a private column (`values`) will not do: rows may
  have other values, which are in no group and yet in the total. The vectors add up where neither units nor values are
  counted once, and no limit acts in each group (`strategy rows`). The noise of as many cells adds up too.
- *A mean* is read from a sum and a count of the same values under the same limits, of which none acts in each group:
  there a sum and a count are cut each by itself, and a mean as a whole. For the same reason a sum is there not read
  from a Bernstein slot. A mean of units' own means (`contribution_bounds_per_group`) is read from its like alone.

Limits. A stored release has the limits that its statement or the planner gave it. Where a statement names none, those
of any release that the planner limited under the same policy will do: they are its choice among several ways to cut
what units with many rows bring, by what else was asked, and each is what "limited as the policy says" can mean. Then
it is the vector under these limits that is given. Where a statement names limits or a strategy, they must be the same.

Is it as good? A stored number is given where its noise is no larger than that of a new one; or where its statement
named at least the same epsilon, as long as it is at most MOST_NOISE times as wide. Who asks for a larger epsilon, or
names one in the aggregate (`epsilon =>`) or weights, asks for better.
"""
