"""What is made of the results of runs: reports, pages, comparisons, the journals behind them."""
