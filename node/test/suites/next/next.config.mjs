// The configuration of the example, with 'use cache' next to pages that use `revalidate`.
import config from './example.config.mjs';

export default { ...config, experimental: { useCache: true } };
