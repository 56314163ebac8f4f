"""What people see: results in words and tables, and as documents."""
