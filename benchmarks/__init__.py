"""What Posthouse costs, as ratios and differences against its bare parts in one run; `make bench` runs them all."""
