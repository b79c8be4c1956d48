import { allTopics } from '../topics.js';

/** A test holds them against what a service makes. */
const FIXED = '(?:slots|catalog|artefacts|cursors|activity|audit|attempts)';
const KINDS = allTopics('').map((topic) => topic.slice(topic.lastIndexOf('.') + 1));
const OF_A_TENANT = `[a-z0-9][a-z0-9-]*(?:_[0-9a-f]+)?\\.(?:${KINDS.join('|')})`;

export interface OwnTopics {
  readonly all: RegExp;
  readonly ofTenants: RegExp;
}

/** The names of the topics that the service makes under a prefix: other clusters' may begin with the same. */
export function ownTopics(prefix: string): OwnTopics {
  const escaped = prefix.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return {
    all: new RegExp(`^${escaped}\\.(?:${FIXED}|${OF_A_TENANT})$`),
    ofTenants: new RegExp(`^${escaped}\\.${OF_A_TENANT}$`),
  };
}
