"""Operations of an ERP as jobs: one at a time per agent, urgent work first, no write done twice."""
