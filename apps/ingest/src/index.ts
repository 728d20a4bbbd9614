export type { TradePage } from './trade-page.ts';
