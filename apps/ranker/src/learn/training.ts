/** `quick` fits ridge regression and calibration again; `intensive` trains the network too. */
export type TrainingKind = 'quick' | 'intensive';

/** How a training ended, or that it goes on. */
export type TrainingStatus = 'running' | 'completed' | 'cancelled' | 'failed';

/** Errors in points of score, on articles that the model had not seen; NaN when not measured. */
export interface CrossValidatedErrors {
  readonly constant: number;
  readonly neighbours: number;
  readonly ridge: number;
  readonly network: number;
  /** What serves: blended and calibrated. */
  readonly served: number;
}

/** One line of the training history. Times are milliseconds since 1970. */
export interface TrainingRecord {
  readonly user: string;
  readonly kind: TrainingKind;
  readonly status: TrainingStatus;
  readonly startedAt: number;
  readonly endedAt: number | undefined;
  /** How many rated articles it learned from. */
  readonly samples: number;
  /** How often the network saw all of them, in all folds. */
  readonly epochs: number;
  /** From 0 to 1. */
  readonly progress: number;
  /** Mean absolute errors by cross-validation, once they are known. */
  readonly errors: CrossValidatedErrors | undefined;
  /** The version of the taste that it published. */
  readonly version: number | undefined;
  /** Why it failed. */
  readonly error: string | undefined;
}
