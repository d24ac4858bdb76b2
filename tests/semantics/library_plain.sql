-- What dpsql drops or changes when it reads the library, and says so: rows that belong to nobody (no unit, or a path that
-- reaches none), and NaN in a column with bounds.
DELETE FROM loans WHERE person IS NULL OR person NOT IN (SELECT person FROM people);
DELETE FROM fines WHERE loan IS NULL OR loan NOT IN (SELECT loan FROM loans WHERE loan IS NOT NULL);
DELETE FROM visits WHERE person IS NULL;
UPDATE people SET score = NULL WHERE isnan(score);
