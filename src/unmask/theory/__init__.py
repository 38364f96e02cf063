"""What is known without running anything: exact values, curves, bounds, schedules (theory.md)."""
