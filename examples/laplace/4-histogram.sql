-- 4. How many people are in each ten years of age?
--
-- A person stands in one bar only, so the ten bars together cost what one costs: scale 1/ε = 1/0.5 = 2 on every bar.
-- The bars are known beforehand, from the bounds of age in the policy: an empty one is shown as well.
SELECT age // 10 * 10 AS age_from, COUNT(*) AS people
FROM people
WHERE age IS NOT NULL
GROUP BY age_from
ORDER BY age_from;
