"""One prompt in, one result out, no questions asked."""
