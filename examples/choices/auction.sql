-- At what price does a thing sell best, of which there is plenty? The bids are 1.00, 1.00, 1.00 and 3.01.
--
-- Noise on the price would ruin it: a cent above 3.01 sells nothing. So a price is chosen, with a probability that grows
-- with its revenue. One bidder moves the revenue of a price by that price, by 3.02 at the most: the sensitivity.
--
-- The textbook counts, at each price, who bids just that: 3.00 at 1.00, 3.01 at 3.01, nothing at 3.02.
SET epsilon = 2;
SELECT price
FROM bids JOIN prices ON bid = price
GROUP BY price
ORDER BY price * COUNT(*) DESC
LIMIT 1;

-- But whoever bids more than a price buys as well, so that 1.00 brings 4.00. Each bid then stands in the row of every
-- price it can pay, however many there are. No limit on the rows of a bidder would allow that; a choice only needs a
-- bidder to count once for each price.
SELECT price
FROM bids JOIN prices ON bid >= price
GROUP BY price
ORDER BY price * COUNT(*) DESC
LIMIT 1;

RESET epsilon;
