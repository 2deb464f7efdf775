"""The addresses of the pages."""

from django.urls import path

from .views import count_visits, show_product

urlpatterns = [
    path("products/<int:number>", show_product),
    path("visits", count_visits),
]
