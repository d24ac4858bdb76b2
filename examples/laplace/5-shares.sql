-- 5. Four numbers about the same people.
--
-- A person may count in all four, so ε is split over them. Evenly, each gets ε/4 = 1/4.
SET epsilon = 1;
SELECT people, adults, things, score
FROM (SELECT COUNT(*) AS people, COUNT_IF(age >= 18) AS adults FROM people) p,
    (SELECT COUNT(*) AS things FROM things) t,
    (SELECT SUM(score) AS score FROM ratings) r;

-- By weights, each gets ε * weight/10: 0.1, 0.1, 0.2 and 0.6. What is noisier by nature gets more.
SET weights = 'people: 1, adults: 1, things: 2, score: 6';
EXPLAIN
SELECT people, adults, things, score
FROM (SELECT COUNT(*) AS people, COUNT_IF(age >= 18) AS adults FROM people) p,
    (SELECT COUNT(*) AS things FROM things) t,
    (SELECT SUM(score) AS score FROM ratings) r;
SELECT people, adults, things, score
FROM (SELECT COUNT(*) AS people, COUNT_IF(age >= 18) AS adults FROM people) p,
    (SELECT COUNT(*) AS things FROM things) t,
    (SELECT SUM(score) AS score FROM ratings) r;
RESET ALL;
