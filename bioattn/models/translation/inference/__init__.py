"""Running translation models: outputs, their scores and their attention."""
