-- A year at a grocer's: 2,469 households, 1,469,307 purchases (Complete Journey, by 84.51°).
--
-- The policy, policies/grocery.toml, protects a household: whether it is in the data at all must not show in any answer.
-- So every answer carries noise that could hide a whole household, the ± beside it says how much (19 times out of 20
-- the true value is within it), and every question is paid for out of one budget, ε. Once it is spent, no more answers.
--
-- `make demo` runs this file. Change what you like and run it again, or ask your own questions line by line:
--
--     .venv/bin/dpsql policies/grocery.toml build/grocery.duckdb

SHOW BUDGET;

-- 1. How many households are there? One of them moves this count by 1, so a small ε buys a good answer.
SET epsilon = 0.1;
SELECT COUNT(DISTINCT household_id) AS households FROM transactions;

-- The same question again is free: it is the same answer, not a second draw of noise.
SELECT COUNT(DISTINCT household_id) AS households FROM transactions;

-- 2. How many buy in these departments? The product table is public, so a join with it costs nothing by itself. A
--    household may buy in all four: it can move four counts, and the noise is four times as wide.
SET epsilon = 0.25;
SELECT department, COUNT(DISTINCT household_id) AS households
FROM transactions JOIN products USING (product_id)
WHERE department IN ('GROCERY', 'DRUG GM', 'PRODUCE', 'MEAT')
GROUP BY department
ORDER BY households DESC;

-- 3. How old are they? 801 households said so, and each has one age: it can move one count of the six by 1, so these are
--    exact to 3 households. Without IS NOT NULL there would be a seventh group, of the households that did not say.
SET epsilon = 1;
SELECT age, COUNT(DISTINCT household_id) AS households
FROM demographics
WHERE age IS NOT NULL
GROUP BY age
ORDER BY age;

-- 4. Purchases and dollars in all. One household may have up to 2,800 purchases: the policy counts no more of any, and
--    the noise must hide them all. The ε is split over the two aggregates. LEAST narrows what a single purchase can weigh
--    from the policy's 50 dollars to 20: less noise, and purchases above 20 count as 20.
SELECT COUNT(*) AS purchases, SUM(LEAST(sales_value, 20)) AS dollars FROM transactions;

-- 5. A mean is better asked for as a mean than as a sum over a count: both then share one noise, made for the purpose.
SET epsilon = 0.5;
SELECT AVG(LEAST(sales_value, 20)) AS mean_price FROM transactions;

-- 6. What is answered once is public. Sorting, ranking, shares and joins with public tables cost nothing more: the whole
--    statement is charged for the counts in its first part alone.
SET epsilon = 1;
WITH sold AS (
    SELECT department, COUNT(*) AS purchases
    FROM transactions JOIN products USING (product_id)
    WHERE department IN ('GROCERY', 'DRUG GM', 'MEAT-PCKGD')
    GROUP BY department
), offered AS (
    SELECT department, COUNT(*) AS products FROM products GROUP BY department
)
SELECT
    rank() OVER (ORDER BY purchases DESC) AS place,
    department,
    purchases,
    ROUND(100 * purchases / SUM(purchases) OVER (), 1) AS percent,
    products,
    ROUND(purchases / products, 1) AS purchases_per_product
FROM sold JOIN offered USING (department)
ORDER BY place;

-- 7. Seasons. The CASE names its own groups, so they are known beforehand and none of them can give a household away.
--    HAVING looks at the noisy counts, as everything above a release does.
SET epsilon = 0.25;
SELECT
    CASE WHEN week <= 13 THEN 'winter' WHEN week <= 26 THEN 'spring' WHEN week <= 39 THEN 'summer' ELSE 'autumn' END AS season,
    COUNT(*) AS purchases
FROM transactions
GROUP BY season
HAVING COUNT(*) > 200000
ORDER BY purchases DESC;

-- 8. Who buys the most fish? That names households, so it is refused: nothing is charged, and the error says what to ask.
SET epsilon = 0.1;
SELECT household_id, COUNT(*) AS purchases
FROM transactions JOIN products USING (product_id)
WHERE department = 'SEAFOOD'
GROUP BY household_id
ORDER BY purchases DESC
LIMIT 10;

-- How many of them buy any? That is what the error proposed.
SELECT COUNT(DISTINCT household_id) AS households
FROM transactions JOIN products USING (product_id)
WHERE department = 'SEAFOOD';

-- 9. What would run, what it would cost and how exact it would be, before it is paid for. Free.
EXPLAIN SELECT COUNT(*) AS purchases FROM transactions WHERE week BETWEEN 1 AND 13;

SHOW BUDGET;
