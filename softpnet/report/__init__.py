"""What people look at: tables, figures, pictures."""
