import { type ErrorMaker, errorMaker } from 'spillway/internal';

const faults = {
  BUDGET_SPENT: { status: 429, retryable: false },
  CHECKPOINT_FUTURE: { status: 409, retryable: false },
  CHECKPOINT_UNREADABLE: { status: 500, retryable: false },
  GENERATION_REPLACED: { status: 409, retryable: false },
  PRODUCT_BEGUN_LATER: { status: 400, retryable: false },
  REFRESH_BEHIND: { status: 409, retryable: false },
  REFRESH_SHORT: { status: 409, retryable: false },
  SEED_UNREADABLE: { status: 400, retryable: false },
  TABLE_LOCKED: { status: 409, retryable: true },
} as const;

/** Every code that harvesting itself throws. */
export type HarvestingErrorCode = keyof typeof faults;

/** A failure that is told to people, and changes nothing. */
export const harvestingError: ErrorMaker<HarvestingErrorCode> = errorMaker(faults);
