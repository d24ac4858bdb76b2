-- An online music shop: 23,570 customers and their 69,659 purchases (CDNOW, by Fader and Hardie).
--
-- Beside examples/grocery.sql this shows what decides how exact an answer is: how many people there are, and how much of
-- an answer a single one can be. Here ten times as many people are asked, and each has few purchases.

-- 1. Customers, to about a tenth of a percent.
SET epsilon = 0.1;
SELECT COUNT(DISTINCT customer_id) AS customers FROM purchases;

-- 2. Purchases, discs and dollars in all: one statement, its ε split over the three.
SET epsilon = 0.5;
SELECT COUNT(*) AS purchases, SUM(cds) AS discs, SUM(amount) AS dollars FROM purchases;

-- 3. Month by month. The months of a date are known beforehand, whether anybody bought in one or not. Each purchase is in
--    one month, so the twelve counts together cost what one costs.
SET epsilon = 0.25;
SELECT EXTRACT(MONTH FROM purchase_date) AS month, COUNT(*) AS purchases
FROM purchases
WHERE purchase_date BETWEEN DATE '1997-01-01' AND DATE '1997-12-31'
GROUP BY month
ORDER BY month;

-- 4. The change from month to month. LAG runs over the counts that were just paid for, so this is free.
WITH months AS (
    SELECT EXTRACT(MONTH FROM purchase_date) AS month, COUNT(*) AS purchases
    FROM purchases
    WHERE purchase_date BETWEEN DATE '1997-01-01' AND DATE '1997-12-31'
    GROUP BY month
)
SELECT month, purchases, purchases - LAG(purchases) OVER (ORDER BY month) AS change
FROM months
ORDER BY month;

-- 5. What a purchase brings, quarter by quarter.
SET epsilon = 0.5;
SELECT EXTRACT(QUARTER FROM purchase_date) AS quarter, AVG(amount) AS mean_amount
FROM purchases
WHERE purchase_date BETWEEN DATE '1997-01-01' AND DATE '1997-12-31'
GROUP BY quarter
ORDER BY quarter;

SHOW BUDGET;
