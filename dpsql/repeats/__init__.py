"""Which stored releases answer a question, so that it is free: by proofs that their vectors are what is asked for.

A stored answer that is given again is a function of what was released and paid for: it costs nothing, whatever it is
(post-processing; Dwork, Roth, proposition 2.1). So no privacy hangs on what is written here. What does is whether the
answer is right: that a group's exact vector in the stored release is the one that a new release would add noise to.
Let S be the conjuncts of WHERE in the stored release and W those of the question, over the same relation.

- *The same groups*: W = S, the same keys in any order. Any of the slots will do (a subset of the columns).
- *Fewer groups*: S is part of W, and what W has beside it reads keys alone. A group for which that is true holds the
  same rows as before, and each adds the same, where what a unit adds to a group hangs on its rows in that group alone
  (`Identity.local`; not where rows or groups are chosen among all that WHERE leaves).
- *Coarser groups*: as above, over fewer keys. The stored groups must be all that a row can be in, and their vectors
  add up where neither units nor values are counted once, and no limit acts in each group (`strategy rows`). The noise
  of as many cells adds up too.
- *A mean* is read from a sum and a count of the same values.

Is it as good? A stored number is given where its noise is no larger than that of a new one; or where its statement
named at least the same epsilon, as long as it is at most MOST_NOISE times as wide. Who asks for a larger epsilon, or
names one in the aggregate (`epsilon =>`) or weights, asks for better.
"""
