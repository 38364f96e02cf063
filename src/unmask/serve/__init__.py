"""An open model behind an endpoint that speaks as OpenAI's: what is asked, batches of it, streams, errors."""
