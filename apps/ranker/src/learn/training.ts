/** `quick` tries four penalties of ridge regression; `intensive` tries a finer grid of them. */
export type TrainingKind = 'quick' | 'intensive';

/** The state of a training. */
export type TrainingStatus = 'running' | 'completed' | 'cancelled' | 'failed';

/** Mean absolute errors on articles that the model had not seen; NaN when not measured. */
export interface CrossValidatedErrors {
  readonly constant: number;
  readonly neighbours: number;
  readonly ridge: number;
  /** The error of the scores that readers see: ridge regression, calibrated. */
  readonly served: number;
}

/** One line of the training history. Times are milliseconds since 1970. */
export interface TrainingRecord {
  readonly user: string;
  readonly kind: TrainingKind;
  readonly status: TrainingStatus;
  readonly startedAt: number;
  readonly endedAt: number | undefined;
  /** The number of rated articles that it learned from. */
  readonly samples: number;
  /** From 0 to 1. */
  readonly progress: number;
  /** Errors by cross-validation, once they are known. */
  readonly errors: CrossValidatedErrors | undefined;
  /** The version of the taste that it published. */
  readonly version: number | undefined;
  /** The reason of a failure. */
  readonly error: string | undefined;
}
