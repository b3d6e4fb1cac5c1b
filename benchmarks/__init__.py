"""Speed, side by side: each benchmark runs this package and a peer or plain twin in one process
and reports a ratio."""
