"""A transcript as a document, as subtitles, as files."""
