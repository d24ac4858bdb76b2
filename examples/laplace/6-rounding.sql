-- 6. Rounding, and counts below zero.
--
-- Nobody is 90 or older, so the last bar is noise alone and often negative. It is shown as it is: cutting it off would
-- make sums of bars too large.
SELECT age // 10 * 10 AS age_from, COUNT(*) AS people
FROM people
WHERE age IS NOT NULL
GROUP BY age_from
ORDER BY age_from;

-- Whatever is computed from noisy values alone is free, and as private as they are. The bars are those that were just paid
-- for, so this statement costs nothing.
SELECT age_from, people,
    GREATEST(people, 0) AS at_least_zero,
    ROUND(people, -1) AS to_tens,
    ROUND(100 * people / SUM(people) OVER (), 1) AS percent
FROM (
    SELECT age // 10 * 10 AS age_from, COUNT(*) AS people
    FROM people
    WHERE age IS NOT NULL
    GROUP BY age_from
) bars
ORDER BY age_from;
