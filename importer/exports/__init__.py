"""What goes out: a model of the store, or a source, in the form that another program loads."""
