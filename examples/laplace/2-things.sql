-- 2. How many things do they have?
--
-- The policy counts at most five things per person: scale 5/ε = 5/0.5 = 10. Person 1001 has ten, of which five are not
-- counted: that is an error of five, and the price of a scale of 10 instead of 20.
SELECT COUNT(*) AS things FROM things;
