CREATE TABLE purchases(customer_id BIGINT, purchase_date DATE, cds INTEGER, amount DOUBLE);
INSERT INTO purchases SELECT i, DATE '1997-01-01' + i::INTEGER, i % 5, i FROM range(1, 100) t(i);
