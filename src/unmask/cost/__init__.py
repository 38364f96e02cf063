"""What quality costs: arithmetic, time by the clock, and the planner that weighs them against autoregression."""
