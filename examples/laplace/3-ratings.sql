-- 3. What do ratings from -10 to 10 sum to, and what is their mean?
--
-- Each person rates at most three films, and a score counts as at most 10 in size, whatever is written there:
-- scale 3 * 10/ε = 30/0.5 = 60.
SELECT SUM(score) AS total FROM ratings;

-- A mean needs a sum and a count. Both come from one pair of noisy sums, of 10 - score and of score + 10: the two add up
-- to 20 for every row, so one person moves the pair by 3 * 20 and the scale is 60/0.5 = 120. The mean is read off their
-- ratio and is good to about 0.3.
SELECT AVG(score) AS mean FROM ratings;
