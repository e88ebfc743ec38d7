"""A release or a fit as one page of HTML that loads nothing and answers by itself.

It takes what is public, and never a table. `privgram.js` computes what a reader asks of the release
that the page holds, and `page.js` shows it.
"""
