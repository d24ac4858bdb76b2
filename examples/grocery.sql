-- A year at a grocer's: 2,469 households, 1,469,307 purchases (Complete Journey, by 84.51°).
--
-- The policy, policies/grocery.toml, protects a household: whether it is in the data at all must not show in any answer.
-- So every answer carries noise that could hide a whole household, the ± beside it says how much (19 times out of 20
-- the true value is within it), and every question is paid for out of one budget, ε. Once it is spent, no more answers.
--
-- dpsql is ordinary SQL. Start here, change what you like: dpsql run --echo examples/grocery.sql

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

-- 3. Purchases and dollars in all. One household may have up to 2,800 purchases: the policy counts no more of any, and
--    the noise must hide them all, so this takes a bigger ε, split over the two aggregates. LEAST narrows what a single
--    purchase can weigh from the policy's 50 dollars to 20: less noise, and purchases above 20 count as 20.
SET epsilon = 1;
SELECT COUNT(*) AS purchases, SUM(LEAST(sales_value, 20)) AS dollars FROM transactions;

-- 4. A mean is better asked for as a mean than as a sum over a count: its noise depends on the spread of the values.
SET epsilon = 0.5;
SELECT AVG(LEAST(sales_value, 20)) AS mean_price FROM transactions;

-- 5. What is answered once is public. Sorting, filtering, ranking, shares and joins with public tables cost nothing more:
--    the whole statement is charged for the counts in its first part alone.
WITH sold AS (
    SELECT department, COUNT(*) AS purchases
    FROM transactions JOIN products USING (product_id)
    WHERE department IN ('GROCERY', 'DRUG GM', 'PRODUCE')
    GROUP BY department
), offered AS (
    SELECT department, COUNT(*) AS products FROM products GROUP BY department
)
SELECT
    rank() OVER (ORDER BY purchases DESC) AS place,
    department,
    purchases,
    ROUND(100 * purchases / SUM(purchases) OVER (), 1) AS share,
    products,
    ROUND(purchases / products, 1) AS purchases_per_product
FROM sold JOIN offered USING (department)
ORDER BY place;

-- 6. Seasons. The CASE names its own groups, so they are known beforehand and none of them can give a household away.
SET epsilon = 0.25;
SELECT
    CASE WHEN week <= 13 THEN 'winter' WHEN week <= 26 THEN 'spring' WHEN week <= 39 THEN 'summer' ELSE 'autumn' END AS season,
    COUNT(*) AS purchases
FROM transactions
GROUP BY season
HAVING COUNT(*) > 200000
ORDER BY purchases DESC;

-- 7. Who buys fresh fish? That names households, so it is refused: nothing is charged, and the error says what to ask.
SET epsilon = 0.1;
SELECT DISTINCT household_id
FROM transactions JOIN products USING (product_id)
WHERE department = 'SEAFOOD';

-- How many do?
SELECT COUNT(DISTINCT household_id) AS households
FROM transactions JOIN products USING (product_id)
WHERE department = 'SEAFOOD';

-- 8. What would run, what it would cost and how exact it would be, before it is paid for. Free.
EXPLAIN SELECT COUNT(*) AS purchases FROM transactions WHERE week BETWEEN 1 AND 13;

SHOW BUDGET;
