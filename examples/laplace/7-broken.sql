-- 7. NaN and infinity.
--
-- Four people have broken instruments: NaN, infinity, minus infinity, 1e308. A reading counts as at least 0 and at most 50,
-- NaN as nothing, whatever else stands there: scale 2 * 50/ε = 100/0.5 = 200, and the answer is a number.
SELECT SUM(reading) AS total FROM readings;

-- The mean by the pair of case 3, of 50 - reading and reading: scale 2 * 50/ε = 200 again.
SELECT AVG(reading) AS mean FROM readings;
