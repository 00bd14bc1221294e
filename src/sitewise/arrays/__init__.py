"""What computes where: the two engines, compiled programs, rows on several devices."""
