"""Maps read from files of attention and attribution: which sites and heads, averaged over what, spread over bases."""
