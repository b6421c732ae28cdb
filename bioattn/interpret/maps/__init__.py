"""Maps read from files of attention and attribution: of which sites and heads, averaged, spread over bases."""
