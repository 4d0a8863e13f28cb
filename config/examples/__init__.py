"""Example jobs, one for each thing that can happen to a job; ``make demo`` shows them."""
