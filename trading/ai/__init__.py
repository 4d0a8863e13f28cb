"""The AI service: indicators, labels and sentences, over signed requests."""
