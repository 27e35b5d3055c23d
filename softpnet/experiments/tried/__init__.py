"""Ideas that the search for the recipe tries, each a file that `--method`, `--targets` or a task's name takes."""
