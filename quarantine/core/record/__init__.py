"""What is kept so that it can be read a year later, and what is read out of it: times, spans, sums, charts' data."""
