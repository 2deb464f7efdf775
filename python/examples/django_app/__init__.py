"""A site of Django whose workers share a cache.

gunicorn --chdir python/examples --workers 4 django_app.wsgi
"""
