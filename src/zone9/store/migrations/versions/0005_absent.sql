-- A pass asks which servers' VMs were found absent; nearly none are, and none is to be looked for among all.
CREATE INDEX resources_absent ON resources ((facts ->> 'absent_at'))
    WHERE kind = 'server' AND phase <> 'deleted' AND facts ->> 'absent_at' IS NOT NULL;
