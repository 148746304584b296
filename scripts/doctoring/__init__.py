"""What scripts/doctor.py looks at: `facts` gathers, `checks` judges, `memory` counts bytes."""
