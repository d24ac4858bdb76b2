-- 1. How many people are there?
--
-- A person is one row of `people`, so one person moves the count by 1: scale 1/ε = 1/0.5 = 2.
SELECT COUNT(*) AS people FROM people;
