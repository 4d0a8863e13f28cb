"""Import fills, name the habits behind them, compare with holding, and report every week."""
