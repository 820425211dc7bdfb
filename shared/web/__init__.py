"""Pages: templates, styles and scripts, and the code that fills them. Handlers pass in what it renders."""
