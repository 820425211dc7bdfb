"""Pages: templates, styles and scripts, and the code that fills them. Knows no store: it is given what it shows."""
