"""Does a task keep the contract? Named checks of its rule, rows, moves and data, for the task's author."""
