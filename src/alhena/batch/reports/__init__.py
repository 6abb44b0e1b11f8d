"""Reports of runs: their numbers, pages, comparisons, and the journals behind them."""
