-- Which of four sports has most votes? 30 voted for football, 25 for volleyball, 8 for running, 2 for rugby.
--
-- No number is shown, so none needs noise: a sport is chosen with a probability proportional to exp(ε · votes / 2), since
-- one voter moves a count of votes by one at most. At ε = 0 each sport has probability 0.25; at ε = 0.1 they have 0.424,
-- 0.330, 0.141 and 0.105; at ε = 1, here, 0.924, 0.076, 0.000015 and 0.0000008.
--
-- One more vote only ever raises counts. So the choice costs half of that ε: 0.5 is charged.
SELECT sport
FROM votes
WHERE sport IS NOT NULL
GROUP BY sport
ORDER BY COUNT(*) DESC
LIMIT 1;

-- The same choice, as an aggregate: it is the most frequent value.
SELECT MODE(sport) AS sport FROM votes;

-- Two winners are two choices, the second among the sports that are left, each by half of the ε.
SELECT sport
FROM votes
WHERE sport IS NOT NULL
GROUP BY sport
ORDER BY COUNT(*) DESC
LIMIT 2;
