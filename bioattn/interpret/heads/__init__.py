"""How much each attention head matters, and what is left without it."""
