//! Comparison reports from result files: Markdown and a self-contained page.
