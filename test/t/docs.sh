# The examples of README.md and doc/ do what the pages show.
cd "$RPQ_ROOT" && exec perl test/lib/docs check README.md doc/*.md
