-- A small shop with the tables of policies/grocery.toml: made-up rows, for the examples of README.md and docs/.
CREATE TABLE products(product_id BIGINT, manufacturer_id BIGINT, department VARCHAR, brand VARCHAR, product_category VARCHAR, product_type VARCHAR, package_size VARCHAR);
INSERT INTO products
SELECT i, i % 7, ['GROCERY', 'DRUG GM', 'PRODUCE', 'MEAT', 'SEAFOOD'][1 + i % 5], CASE WHEN i % 6 = 0 THEN 'Private' ELSE 'National' END, 'category ' || (i % 9), 'type ' || (i % 12), NULL
FROM range(1, 61) t(i);
CREATE TABLE transactions(household_id BIGINT, store_id BIGINT, basket_id BIGINT, product_id BIGINT, quantity BIGINT, sales_value DOUBLE, retail_disc DOUBLE, coupon_disc DOUBLE, coupon_match_disc DOUBLE, week BIGINT, transaction_timestamp TIMESTAMP);
INSERT INTO transactions
SELECT 1 + i % 80, 100 + i % 4, i // 3, 1 + i * 7 % 62, 1 + i % 3, (i * 613 % 6000) / 100.0, 0, 0, 0, 1 + i % 53, TIMESTAMP '2017-01-01 08:00:00' + to_hours((i * 3)::INTEGER)
FROM range(2400) t(i);
CREATE TABLE demographics(household_id BIGINT, age VARCHAR, income VARCHAR, home_ownership VARCHAR, marital_status VARCHAR, household_size VARCHAR, household_comp VARCHAR, kids_count VARCHAR);
INSERT INTO demographics
SELECT i, ['19-24', '25-34', '35-44', '45-54', '55-64', '65+'][1 + i % 6], '35-49K', 'Homeowner', CASE WHEN i % 3 = 0 THEN NULL ELSE 'Married' END, '2', '2 Adults No Kids', '0'
FROM range(1, 41) t(i);
