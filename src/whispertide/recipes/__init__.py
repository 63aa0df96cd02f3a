"""Recipes: what one is, the published ones, what changes them, and what a recipe is computed with."""
